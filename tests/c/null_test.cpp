// SPDX-License-Identifier: MIT
#include <gtest/gtest.h>
#include <hbmwire.h>

#include <cstring>

// Calls every function with NULL and 0 for each of its arguments.
namespace hbmwire::c_test {
namespace {

/// Calls a function with NULL and 0 for each of its arguments.
template <class... Argument>
hbmwire_status with_nothing(hbmwire_status (*function)(Argument...)) {
  return function(Argument{}...);
}

/// with_nothing() for a function that returns no status.
template <class Answer, class... Argument>
Answer answer_to_nothing(Answer (*function)(Argument...)) {
  return function(Argument{}...);
}

#define REFUSES(function) EXPECT_EQ(with_nothing(function), HBMWIRE_INVALID_ARGUMENT) << #function

TEST(CNull, EachFunctionThatReportsErrorsRefusesNull) {
  REFUSES(hbmwire_context_counters);
  REFUSES(hbmwire_counters_failures);
  REFUSES(hbmwire_counters_get_info);
  REFUSES(hbmwire_counters_times);
  REFUSES(hbmwire_counters_transfers);
  REFUSES(hbmwire_endpoint_counters);
  REFUSES(hbmwire_nic_counters);
  REFUSES(hbmwire_process_counters);
  REFUSES(hbmwire_published_find);
  REFUSES(hbmwire_published_list);
  REFUSES(hbmwire_published_read);
  REFUSES(hbmwire_trace_start);
  REFUSES(hbmwire_trace_stop);
  REFUSES(hbmwire_worker_counters);
  REFUSES(hbmwire_attach_listener_create);
  REFUSES(hbmwire_attach_listener_publish);
  REFUSES(hbmwire_attach_listener_progress);
  REFUSES(hbmwire_attach_publication_address);
  REFUSES(hbmwire_attach);
  REFUSES(hbmwire_block_table_create);
  REFUSES(hbmwire_remote_block_table_create);
  REFUSES(hbmwire_endpoint_put_blocks);
  REFUSES(hbmwire_endpoint_get_blocks);
  REFUSES(hbmwire_buffer_create);
  REFUSES(hbmwire_buffer_write);
  REFUSES(hbmwire_buffer_read);
  REFUSES(hbmwire_buffer_start_write);
  REFUSES(hbmwire_buffer_start_read);
  REFUSES(hbmwire_copy_poll);
  REFUSES(hbmwire_copy_wait);
  REFUSES(hbmwire_context_create);
  REFUSES(hbmwire_context_memory);
  REFUSES(hbmwire_context_device);
  REFUSES(hbmwire_context_find);
  REFUSES(hbmwire_context_borrow);
  REFUSES(hbmwire_context_adopt);
  REFUSES(hbmwire_context_import_dmabuf);
  REFUSES(hbmwire_context_allocate);
  REFUSES(hbmwire_context_open);
  REFUSES(hbmwire_domain_device);
  REFUSES(hbmwire_domain_allocate);
  REFUSES(hbmwire_allocation_export_dmabuf);
  REFUSES(hbmwire_allocation_advise);
  REFUSES(hbmwire_domain_copy_in);
  REFUSES(hbmwire_domain_copy_out);
  REFUSES(hbmwire_domain_start_copy_in);
  REFUSES(hbmwire_domain_start_copy_out);
  REFUSES(hbmwire_domain_flush);
  REFUSES(hbmwire_endpoint_connect);
  REFUSES(hbmwire_endpoint_get_info);
  REFUSES(hbmwire_endpoint_nic);
  REFUSES(hbmwire_endpoint_failure);
  REFUSES(hbmwire_endpoint_remote);
  REFUSES(hbmwire_endpoint_remote_by_key);
  REFUSES(hbmwire_endpoint_remote_by_bytes);
  REFUSES(hbmwire_remote_region_get_info);
  REFUSES(hbmwire_endpoint_put);
  REFUSES(hbmwire_endpoint_get);
  REFUSES(hbmwire_endpoint_prepare_put);
  REFUSES(hbmwire_endpoint_prepare_get);
  REFUSES(hbmwire_prepared_post);
  REFUSES(hbmwire_endpoint_fetch_add);
  REFUSES(hbmwire_endpoint_compare_swap);
  REFUSES(hbmwire_endpoint_send);
  REFUSES(hbmwire_endpoint_send_tagged);
  REFUSES(hbmwire_endpoint_receive);
  REFUSES(hbmwire_endpoint_receive_tagged);
  REFUSES(hbmwire_endpoint_receive_immediate);
  REFUSES(hbmwire_endpoint_flush);
  REFUSES(hbmwire_endpoint_fence);
  REFUSES(hbmwire_endpoint_close);
  REFUSES(hbmwire_endpoint_start_close);
  REFUSES(hbmwire_endpoint_wait_closed);
  REFUSES(hbmwire_endpoint_reconnect);
  REFUSES(hbmwire_group_create);
  REFUSES(hbmwire_group_get_member);
  REFUSES(hbmwire_group_failed);
  REFUSES(hbmwire_group_exchange);
  REFUSES(hbmwire_group_exchange_among_present);
  REFUSES(hbmwire_group_barrier);
  REFUSES(hbmwire_group_endpoint);
  REFUSES(hbmwire_group_broadcast);
  REFUSES(hbmwire_group_rejoin);
  REFUSES(hbmwire_invitation_create);
  REFUSES(hbmwire_invitation_start);
  REFUSES(hbmwire_invitation_poll);
  REFUSES(hbmwire_invitation_connect);
  REFUSES(hbmwire_listener_create);
  REFUSES(hbmwire_listener_addresses);
  REFUSES(hbmwire_listener_accept);
  REFUSES(hbmwire_listener_try_accept);
  REFUSES(hbmwire_listener_advertise);
  REFUSES(hbmwire_listener_withdraw);
  REFUSES(hbmwire_memory_key_pack);
  REFUSES(hbmwire_memory_key_get_info);
  REFUSES(hbmwire_memory_key_revoke);
  REFUSES(hbmwire_remote_key_unpack);
  REFUSES(hbmwire_remote_key_get_info);
  REFUSES(hbmwire_remote_key_nic);
  REFUSES(hbmwire_message_get_info);
  REFUSES(hbmwire_message_receive);
  REFUSES(hbmwire_context_nics);
  REFUSES(hbmwire_nics_get);
  REFUSES(hbmwire_nics_port);
  REFUSES(hbmwire_nics_gid);
  REFUSES(hbmwire_context_nics_near);
  REFUSES(hbmwire_near_nics_get);
  REFUSES(hbmwire_context_pci_link);
  REFUSES(hbmwire_endpoint_start_connect);
  REFUSES(hbmwire_endpoint_start_reconnect);
  REFUSES(hbmwire_pending_endpoint_take);
  REFUSES(hbmwire_endpoint_start_remote);
  REFUSES(hbmwire_pending_region_take);
  REFUSES(hbmwire_context_allocate_region);
  REFUSES(hbmwire_context_register_memory);
  REFUSES(hbmwire_context_register_allocation);
  REFUSES(hbmwire_context_register_dmabuf);
  REFUSES(hbmwire_region_get_info);
  REFUSES(hbmwire_region_nic);
  REFUSES(hbmwire_region_write);
  REFUSES(hbmwire_region_read);
  REFUSES(hbmwire_region_explain);
  REFUSES(hbmwire_paths_tried_get);
  REFUSES(hbmwire_registration_cache_create);
  REFUSES(hbmwire_registration_cache_get);
  REFUSES(hbmwire_registration_cache_get_dmabuf);
  REFUSES(hbmwire_registration_cache_drop);
  REFUSES(hbmwire_registration_cache_drop_unused);
  REFUSES(hbmwire_registration_cache_statistics);
  REFUSES(hbmwire_settings_describe);
  REFUSES(hbmwire_settings_get);
  REFUSES(hbmwire_split_host_port);
  REFUSES(hbmwire_transfer_poll);
  REFUSES(hbmwire_transfer_wait);
  REFUSES(hbmwire_transfer_poll_until);
  REFUSES(hbmwire_transfer_notify);
  REFUSES(hbmwire_transfer_cancel);
  REFUSES(hbmwire_transfer_request_cancel);
  REFUSES(hbmwire_transfer_explain);
  REFUSES(hbmwire_report_get_info);
  REFUSES(hbmwire_report_local);
  REFUSES(hbmwire_report_copy);
  REFUSES(hbmwire_report_ipc);
  REFUSES(hbmwire_report_rail);
  REFUSES(hbmwire_get_versions);
  REFUSES(hbmwire_worker_create);
  REFUSES(hbmwire_worker_arm);
  REFUSES(hbmwire_worker_next_done);
  REFUSES(hbmwire_worker_next_message);
  REFUSES(hbmwire_worker_wait_any);
  REFUSES(hbmwire_worker_wait_all);
  REFUSES(hbmwire_worker_wait);
  REFUSES(hbmwire_worker_flush);
}

// Functions without a status return an empty value.
TEST(CNull, FunctionsWithoutAnErrorDoNotCrashOnNull) {
  answer_to_nothing(hbmwire_attach_listener_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_attach_listener_fd), -1);
  answer_to_nothing(hbmwire_attach_publication_free);
  answer_to_nothing(hbmwire_attached_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_block_table_size), 0U) << "hbmwire_block_table_size";
  EXPECT_EQ(answer_to_nothing(hbmwire_block_table_block_bytes), 0U)
      << "hbmwire_block_table_block_bytes";
  answer_to_nothing(hbmwire_block_table_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_remote_block_table_size), 0U)
      << "hbmwire_remote_block_table_size";
  EXPECT_EQ(answer_to_nothing(hbmwire_remote_block_table_block_bytes), 0U)
      << "hbmwire_remote_block_table_block_bytes";
  answer_to_nothing(hbmwire_remote_block_table_free);
  answer_to_nothing(hbmwire_buffer_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_buffer_size_bytes), 0U) << "hbmwire_buffer_size_bytes";
  EXPECT_EQ(answer_to_nothing(hbmwire_buffer_copy_path), 0U) << "hbmwire_buffer_copy_path";
  answer_to_nothing(hbmwire_copy_free);
  answer_to_nothing(hbmwire_context_options_init);
  answer_to_nothing(hbmwire_context_free);
  answer_to_nothing(hbmwire_memory_probe_init);
  answer_to_nothing(hbmwire_device_init);
  answer_to_nothing(hbmwire_address_info_init);
  answer_to_nothing(hbmwire_domain_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_domain_copy_engine), 0U) << "hbmwire_domain_copy_engine";
  answer_to_nothing(hbmwire_dmabuf_range_init);
  EXPECT_NE(answer_to_nothing(hbmwire_phase_name), nullptr);
  answer_to_nothing(hbmwire_endpoint_options_init);
  answer_to_nothing(hbmwire_endpoint_free);
  answer_to_nothing(hbmwire_endpoint_info_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_endpoint_phase), -1);
  answer_to_nothing(hbmwire_remote_region_info_init);
  answer_to_nothing(hbmwire_remote_region_free);
  answer_to_nothing(hbmwire_put_options_init);
  answer_to_nothing(hbmwire_prepared_free);
  answer_to_nothing(hbmwire_error_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_error_describe), 0U) << "hbmwire_error_describe";
  EXPECT_EQ(answer_to_nothing(hbmwire_error_describe_with), 0U) << "hbmwire_error_describe_with";
  EXPECT_EQ(answer_to_nothing(hbmwire_error_number_text), 0U) << "hbmwire_error_number_text";
  EXPECT_FALSE(answer_to_nothing(hbmwire_error_is_shortage));
  EXPECT_NE(answer_to_nothing(hbmwire_status_name), nullptr);
  EXPECT_NE(answer_to_nothing(hbmwire_stage_name), nullptr);
  EXPECT_NE(answer_to_nothing(hbmwire_hint_name), nullptr);
  EXPECT_NE(answer_to_nothing(hbmwire_hint_text), nullptr);
  EXPECT_EQ(answer_to_nothing(hbmwire_hint_from_name), -1);
  answer_to_nothing(hbmwire_group_options_init);
  answer_to_nothing(hbmwire_group_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_group_rank), 0U) << "hbmwire_group_rank";
  EXPECT_EQ(answer_to_nothing(hbmwire_group_size), 0U) << "hbmwire_group_size";
  EXPECT_EQ(answer_to_nothing(hbmwire_group_epoch), 0U) << "hbmwire_group_epoch";
  EXPECT_EQ(answer_to_nothing(hbmwire_group_launcher), nullptr);
  answer_to_nothing(hbmwire_group_member_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_group_address), nullptr);
  EXPECT_EQ(answer_to_nothing(hbmwire_exchanged_count), 0U) << "hbmwire_exchanged_count";
  EXPECT_EQ(answer_to_nothing(hbmwire_exchanged_bytes), nullptr);
  answer_to_nothing(hbmwire_exchanged_free);
  answer_to_nothing(hbmwire_group_drop_endpoint);
  answer_to_nothing(hbmwire_broadcast_options_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_invitation_bytes), nullptr);
  answer_to_nothing(hbmwire_invitation_free);
  answer_to_nothing(hbmwire_listener_options_init);
  answer_to_nothing(hbmwire_listener_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_listener_port), 0U) << "hbmwire_listener_port";
  EXPECT_EQ(answer_to_nothing(hbmwire_texts_count), 0U) << "hbmwire_texts_count";
  EXPECT_EQ(answer_to_nothing(hbmwire_texts_get), nullptr);
  answer_to_nothing(hbmwire_texts_free);
  answer_to_nothing(hbmwire_set_log_level);
  answer_to_nothing(hbmwire_log_line);
  EXPECT_NE(answer_to_nothing(hbmwire_log_level_name), nullptr);
  answer_to_nothing(hbmwire_memory_options_init);
  answer_to_nothing(hbmwire_dmabuf_init);
  answer_to_nothing(hbmwire_gaudi_memory_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_allocation_address), 0U) << "hbmwire_allocation_address";
  EXPECT_EQ(answer_to_nothing(hbmwire_allocation_size_bytes), 0U)
      << "hbmwire_allocation_size_bytes";
  EXPECT_EQ(answer_to_nothing(hbmwire_allocation_type), -1);
  answer_to_nothing(hbmwire_allocation_free);
  answer_to_nothing(hbmwire_memory_key_options_init);
  answer_to_nothing(hbmwire_memory_key_info_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_memory_key_bytes), nullptr);
  EXPECT_FALSE(answer_to_nothing(hbmwire_memory_key_revocable));
  EXPECT_FALSE(answer_to_nothing(hbmwire_memory_key_valid));
  answer_to_nothing(hbmwire_memory_key_free);
  answer_to_nothing(hbmwire_remote_key_free);
  answer_to_nothing(hbmwire_message_info_init);
  answer_to_nothing(hbmwire_message_free);
  answer_to_nothing(hbmwire_nic_device_init);
  answer_to_nothing(hbmwire_nic_info_init);
  answer_to_nothing(hbmwire_gid_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_nics_count), 0U) << "hbmwire_nics_count";
  answer_to_nothing(hbmwire_nics_free);
  EXPECT_NE(answer_to_nothing(hbmwire_distance_name), nullptr);
  answer_to_nothing(hbmwire_near_nic_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_near_nics_count), 0U) << "hbmwire_near_nics_count";
  answer_to_nothing(hbmwire_near_nics_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_context_numa_node), -1);
  answer_to_nothing(hbmwire_pci_link_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_pending_endpoint_transfer), nullptr);
  answer_to_nothing(hbmwire_pending_endpoint_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_pending_region_transfer), nullptr);
  answer_to_nothing(hbmwire_pending_region_free);
  answer_to_nothing(hbmwire_region_info_init);
  answer_to_nothing(hbmwire_region_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_region_host_bytes), nullptr);
  answer_to_nothing(hbmwire_path_tried_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_paths_tried_count), 0U) << "hbmwire_paths_tried_count";
  answer_to_nothing(hbmwire_paths_tried_free);
  answer_to_nothing(hbmwire_registration_options_init);
  answer_to_nothing(hbmwire_registration_cache_free);
  answer_to_nothing(hbmwire_registration_statistics_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_registration_lease_region), nullptr);
  EXPECT_EQ(answer_to_nothing(hbmwire_registration_lease_slice).region, nullptr);
  answer_to_nothing(hbmwire_registration_lease_free);
  answer_to_nothing(hbmwire_setting_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_settings_count), 0U) << "hbmwire_settings_count";
  answer_to_nothing(hbmwire_settings_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_join_host_port), 0U) << "hbmwire_join_host_port";
  answer_to_nothing(hbmwire_transfer_free);
  EXPECT_TRUE(answer_to_nothing(hbmwire_transfer_done));
  EXPECT_TRUE(answer_to_nothing(hbmwire_transfer_settled));
  EXPECT_EQ(answer_to_nothing(hbmwire_transfer_bytes), 0U) << "hbmwire_transfer_bytes";
  EXPECT_EQ(answer_to_nothing(hbmwire_transfer_value), 0U) << "hbmwire_transfer_value";
  EXPECT_EQ(answer_to_nothing(hbmwire_transfer_path), -1);
  answer_to_nothing(hbmwire_report_info_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_report_describe), 0U) << "hbmwire_report_describe";
  answer_to_nothing(hbmwire_report_free);
  EXPECT_NE(answer_to_nothing(hbmwire_memory_type_name), nullptr);
  EXPECT_NE(answer_to_nothing(hbmwire_path_name), nullptr);
  EXPECT_NE(answer_to_nothing(hbmwire_level_name), nullptr);
  EXPECT_NE(answer_to_nothing(hbmwire_protocol_name), nullptr);
  EXPECT_NE(answer_to_nothing(hbmwire_placement_name), nullptr);
  answer_to_nothing(hbmwire_versions_init);
  answer_to_nothing(hbmwire_worker_options_init);
  answer_to_nothing(hbmwire_worker_free);
  EXPECT_EQ(answer_to_nothing(hbmwire_worker_progress), 0U) << "hbmwire_worker_progress";
  EXPECT_EQ(answer_to_nothing(hbmwire_worker_fd), -1);
  EXPECT_EQ(answer_to_nothing(hbmwire_worker_wake_after_ms), 0) << "hbmwire_worker_wake_after_ms";
  answer_to_nothing(hbmwire_done_init);
  EXPECT_STREQ(answer_to_nothing(hbmwire_transfer_kind_name), "put");
  answer_to_nothing(hbmwire_counters_info_init);
  answer_to_nothing(hbmwire_transfer_counters_init);
  answer_to_nothing(hbmwire_failure_counters_init);
  answer_to_nothing(hbmwire_transfer_times_init);
  answer_to_nothing(hbmwire_trace_counts_init);
  EXPECT_EQ(answer_to_nothing(hbmwire_time_bucket_bound_ns), 128);
  answer_to_nothing(hbmwire_counters_free);
  EXPECT_FALSE(answer_to_nothing(hbmwire_published_is_running));
  answer_to_nothing(hbmwire_published_free);
  EXPECT_STREQ(answer_to_nothing(hbmwire_trace_file), "");
  answer_to_nothing(hbmwire_trace_free);
}

}  // namespace
}  // namespace hbmwire::c_test
